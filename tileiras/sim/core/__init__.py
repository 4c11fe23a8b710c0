"""What every instruction rests on: decoding, registers, memories, counting."""
