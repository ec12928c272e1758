"""What an installed wheel can do with NumPy alone; ./dev check install runs it."""

import numpy as np

import ffdl

server = ffdl.ParameterServer.create(parameters=10, rule=ffdl.UpdateRuleOptions(learning_rate=1.0))
server.start()
learner = ffdl.Learner.attach(server, timeout_s=10)
learner.push(np.full(10, -1, np.float32), (0, 0, 1))
learner.detach(timeout_s=10)
assert (server.weights() == 1).all()
print(f"ffdl {ffdl.__version__} from {ffdl.__file__}: one gradient folded")
