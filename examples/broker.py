"""A broker for trying things: starts one, says how to use it, and removes it on Ctrl-C."""

from app.broker import start_broker

with start_broker(say=print) as broker:
    print("Kafka runs until you press Ctrl-C. In the other terminals:")
    print(f"export SPANJOIN_KAFKA__BOOTSTRAP_SERVERS={broker.bootstrap_servers}", flush=True)
    try:
        input()
    except (KeyboardInterrupt, EOFError):
        print()
