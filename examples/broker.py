"""A broker for trying things: starts one, says how to use it, and removes it on Ctrl-C."""

import signal

from app.broker import start_broker

# However it is told to end, and whether it has a terminal or not (nohup, a service).
signal.signal(signal.SIGTERM, signal.default_int_handler)

try:
    with start_broker(say=print) as broker:
        print("Kafka runs until you press Ctrl-C. In the other terminals:")
        print(f"export SPANJOIN_KAFKA__BOOTSTRAP_SERVERS={broker.bootstrap_servers}", flush=True)
        signal.pause()
except KeyboardInterrupt:
    print()
