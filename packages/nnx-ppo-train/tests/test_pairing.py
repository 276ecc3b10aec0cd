"""Values go with rewards, advantages with actions."""

import pytest
from nnx_ppo_train._pairing import leaf_names, match_likelihoods, match_rewards


@pytest.mark.parametrize("tree", [1.0, {"a": 1.0, "b": 2.0}, {"a": {"b": 1.0}, "c": (2.0, 3.0)}])
def test_equal_trees_match_as_they_are(tree):
    assert match_rewards(tree, tree) == tree


@pytest.mark.parametrize(
    ("values", "rewards", "matched"),
    [
        ({"value": 7.0}, 1.0, 7.0),
        (7.0, {"speed": 1.0}, {"speed": 7.0}),
        ({"value": 7.0}, {"speed": 1.0}, {"speed": 7.0}),
        ({"value": 7.0}, {"body": {"arm": 1.0}}, {"body": {"arm": 7.0}}),
    ],
)
def test_single_leaf_takes_the_structure_of_the_reward(values, rewards, matched):
    assert match_rewards(values, rewards) == matched


@pytest.mark.parametrize(
    ("values", "rewards", "match"),
    [
        (7.0, {"a": 1.0, "b": 2.0}, r"gives rewards \['a'\], \['b'\], the network values one bare"),
        ({"a": 7.0, "b": 8.0}, 1.0, r"rewards one bare array, the network values \['a'\], \['b'\]"),
        ({"a": 7.0, "c": 8.0}, {"a": 1.0, "b": 2.0}, r"values \['a'\], \['c'\]; give the value"),
        ({}, 1.0, "the network values nothing"),
    ],
)
def test_other_trees_of_values_are_refused(values, rewards, match):
    with pytest.raises(ValueError, match=match):
        match_rewards(values, rewards)


def test_one_advantage_trains_every_action():
    assert match_likelihoods(3.0, {"a": 0.0, "b": {"c": 0.0}}, False) == {"a": 3.0, "b": {"c": 3.0}}
    assert match_likelihoods({"speed": 3.0}, 0.0, False) == 3.0


def test_advantages_train_the_actions_of_the_same_name():
    advantages = {"a": 3.0, "b": 4.0}
    assert match_likelihoods(advantages, {"a": 0.0, "b": 0.0}, False) == advantages


def test_an_agents_reward_trains_all_its_actions():
    likelihoods = {"cat": {"arm": 0.0, "leg": 0.0}, "dog": 0.0}
    expected = {"cat": {"arm": 3.0, "leg": 3.0}, "dog": 4.0}
    assert match_likelihoods({"cat": 3.0, "dog": 4.0}, likelihoods, False) == expected


def test_combined_advantages_train_every_action_on_their_sum():
    advantages = {"a": 3.0, "b": 4.0}
    assert match_likelihoods(advantages, {"a": 0.0, "b": 0.0}, True) == {"a": 7.0, "b": 7.0}
    assert match_likelihoods(advantages, 0.0, True) == 7.0


@pytest.mark.parametrize("likelihoods", [0.0, {"a": 0.0}, {"a": 0.0, "c": 0.0}])
def test_several_advantages_for_other_actions_are_refused(likelihoods):
    with pytest.raises(ValueError, match=r"rewards \['a'\], \['b'\].*set combine_advantages=True"):
        match_likelihoods({"a": 3.0, "b": 4.0}, likelihoods, False)


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        (1.0, "one bare array"),
        ({}, "nothing"),
        ({"a": 1.0, "b": {"c": 1.0}}, "['a'], ['b']['c']"),
        ((1.0, 2.0), "[0], [1]"),
    ],
)
def test_leaf_names_say_where_leaves_are(tree, names):
    assert leaf_names(tree) == names
