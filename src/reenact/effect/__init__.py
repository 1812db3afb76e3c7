"""The effect boundary: everything an agent does to the world goes through here, is recorded, and is served again."""
