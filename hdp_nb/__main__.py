"`python -m hdp_nb` is the command `hdp_nb`, also where that is not on the path."

import sys

from .cli.main import main

sys.exit(main())
