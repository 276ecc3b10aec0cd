"""``python -m nnx_ppo_train.cli``."""

import sys

from ._main import main

sys.exit(main())
