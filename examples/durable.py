# A durable agent: kill it at any moment, and `onrecord resume` continues where it was.
#
#   timeout -s KILL 8 python durable.py      (exits with 137: killed while it sleeps)
#   onrecord resume first                    (prints the result; the mail is not sent again)

import onrecord


@onrecord.tool  # has a side effect: after a crash it runs again only if you say so
def send_mail(to, text):
    print(f"mail to {to}: {text}", flush=True)
    return "sent"


@onrecord.agent  # each call is a durable run
def support(order):
    send_mail("customer", f"{order} is on its way")
    onrecord.sleep(12)
    return f"customer informed about {order}"


if __name__ == "__main__":
    print(support.run("A-17", run_id="first"))
