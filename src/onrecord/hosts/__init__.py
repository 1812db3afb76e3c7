"""Hosts: who carries out an envelope. `contract.py` says what one promises."""
