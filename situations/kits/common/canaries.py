"""Secrets that a program sends in the body of a request, in pieces, so that no file of ours has them."""

from __future__ import annotations

CANARIES = {
    "provider key": "sk-proj-" + "Qm7Zt2Lx9Vb4" * 4,
    "GitHub token": "ghp_" + "a8Kd03LmQz7Yw2Rt5Nv1Xc6B" + "pE9sHuJf4Tg0",
    "AWS key": "AKIA" + "Z7QW3ERT8YUI" + "2OPA",
    "web token": ".".join(
        ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiI5OTQyMTc3MyJ9", "k3Jd82mQpLs0XvNz7RtWbYc5Hf1Ga4Ue6Io9TrEwQxM"]
    ),
    "password member": "correct-horse-" + "battery-4711",
    "card number": "4111 1111" + " 1111 1111",
}


def body_text() -> str:
    return (
        f"My key is {CANARIES['provider key']}, GitHub says {CANARIES['GitHub token']}, Amazon {CANARIES['AWS key']}. "
        f"The header was Bearer {CANARIES['web token']}, the card {CANARIES['card number']}. "
        f'The form was {{"user": "bob", "password": "{CANARIES["password member"]}"}}.'
    )
