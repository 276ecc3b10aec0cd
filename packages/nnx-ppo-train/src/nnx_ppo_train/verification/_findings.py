"""What a fault means, in words: what is wrong, where, and what to do about it."""

from nnx_stateful import StatefulModule

from ._blame import Fault, describe
from ._runs import WINDOW
from ._traced_rollout import RolledOut, shift_of_done


def message(stage: str, fault: Fault, networks: StatefulModule, rolled: RolledOut) -> str:
    """Returns the text of a ReplayError.

    Args:
      stage: the stage that failed.
      fault: its first deviation.
      networks: the network, whose classes are named.
      rolled: the rollout.
    """
    module = "the network" if fault.module is None else describe(networks, fault.module)
    if stage == "rollout":
        what, remedy = _rollout_findings(fault, module, rolled)
    else:
        what, remedy = _replay_findings(stage, fault, module, rolled)
    others = ", ".join(f"{name} ({by:.2g})" for name, by in list(fault.others.items())[:8])
    return (
        f"verify_replay: {what}. First at step {fault.step}, row {fault.row}: "
        f"{fault.quantity.name} deviates by {fault.deviation:.3g}, limit {fault.limit:.3g}"
        + (f"; at that step also {others}" if others else "")
        + f". {remedy}"
    )


def _replay_findings(stage: str, fault: Fault, module: str, rolled: RolledOut) -> tuple[str, str]:
    part = "carry state" if fault.quantity.kind == "carry" else "output"
    found, remedy = _REPLAYED[stage]
    if stage == "steps" and rolled.changed:
        remedy = (
            f"The rollout changed the variables {', '.join(rolled.changed)}: call "
            "update_statistics after the loss and its gradient step, not before"
        )
    elif stage == "steps" and rolled.advanced:
        remedy += f". RNG streams that the rollout advanced: {', '.join(rolled.advanced)}"
    return f"the {part} of {module} {found}", remedy


_REPLAYED = {
    "steps": (
        "is another in the replay of a single step, from the carry state, observation and "
        "rollout_extras of the rollout",
        "Look for state kept outside of the carry (an attribute, an RNG stream), for noise that is "
        "drawn although rollout_extras are given, and for an unroll that differs from __call__; "
        "nnx_stateful.testing.check_stateful_module checks the module alone",
    ),
    "noise": (
        "depends, in the replay, on the noise key in the carry state: noise is drawn anew although "
        "rollout_extras are given",
        "Emit what was drawn as rollout_extras, and use it in place of a new draw where "
        "rollout_extras are not None",
    ),
    "windows": (
        f"is another in the replay of {WINDOW} steps, though single steps agree",
        "Look at its own unroll: the carry of a row must be reset after the step at which done is "
        "set, neither before that step nor after the next one; without an unroll of its own a "
        "module gets one that does so",
    ),
    "sequence": (
        f"is another in the replay of the whole rollout, though windows of {WINDOW} steps agree",
        "Look at its own unroll for memory that reaches back further than a window, such as a "
        "delay that reads across a reset; check with float64=True whether it is rounding",
    ),
}
"""By stage: what was found of a module, and what to do about it."""


def _rollout_findings(fault: Fault, owner: str, rolled: RolledOut) -> tuple[str, str]:
    kind, step = fault.quantity.kind, fault.step
    if kind == "obs":
        return (
            "Transition.obs is not what the network was given",
            "Store the observation on which the network acted, not the one after it",
        )
    if kind == "returned":
        return (
            f"the carry state of {owner} that unroll_fn returned is not the one after the last "
            "step",
            "Return next_state of the last step, with the rows of its done reset",
        )
    if kind != "carry":
        return (
            "Transition.network_output is not what the network returned",
            "Store out.output of the step as it is",
        )
    if step == 0:
        return (
            f"the first step of unroll_fn began with another carry state of {owner} than it was "
            "given",
            "The loss replays from the carry state that unroll_fn is given: begin with that one",
        )
    shift = shift_of_done(rolled)
    wrong = "does not say which rows were reset"
    if shift:
        wrong = f"is stored one step {'late' if shift > 0 else 'early'}"
    return (
        f"Transition.done {wrong}: step {step} began with a carry state of {owner} that is not the "
        f"one after step {step - 1} with the rows of its done reset",
        "Reset the rows of done with reset_rows(networks, out.next_state, done), and store that "
        "very done with the step",
    )
