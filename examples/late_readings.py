"""
Readings out of order
=====================

Three sensors send numbered readings over a network that delays, swaps and loses some. The stream uses the previous
reading in the place of one that is missing, and corrects it when it arrives. In the end, every sensor has the bits it
would have had if all readings had arrived in order.
"""

import numpy as np

from unicornn import UnICORNN
from unicornn.errors import BadValue
from unicornn.models import Regressor
from unicornn.streams import Stream

rng = np.random.default_rng(0)
N, HISTORY = 300, 60
readings = {f"sensor {i}": np.sin(0.1 * (i + 1) * np.arange(N))[:, None] for i in range(3)}
messages = [  # (time of arrival, sensor, number of the reading)
    (n + (rng.exponential(8) if rng.random() < 0.1 else 0), sensor, n) for sensor in readings for n in range(N)
]
slow = (N + 20.0, "sensor 0", N - 200)  # too late for the history
messages = sorted([*(each for each in messages if each[1:] != slow[1:]), slow])

model = Regressor(UnICORNN(1, 16, 2), 1).eval()
stream = Stream(model, history=HISTORY)
received, last = dict.fromkeys(readings, 0), dict.fromkeys(readings, np.zeros(1))
corrected = 0
for _, sensor, n in messages:
    value, missing = readings[sensor][n], n - received[sensor]
    if missing < 0:  # the stream has used another value for it
        try:
            stream.correct(sensor, at=n, samples=value)
            corrected += 1
        except BadValue as error:
            print(f"{sensor}, reading {n}: {error}")
    else:
        stream.push({sensor: np.stack([*[last[sensor]] * missing, value])})
        received[sensor], last[sensor] = n + 1, value

print(f"{corrected} of {len(messages)} readings arrived late and were put into place")
in_order = Stream(model)
in_order.push(readings)
for sensor in readings:
    same = (stream.push({sensor: [0.0]})[sensor] == in_order.push({sensor: [0.0]})[sensor]).all()
    print(
        f"{sensor}: {'the same bits as in order' if same else 'not the same, because of the reading that was too late'}"
    )
