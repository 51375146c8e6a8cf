"""What a tensor is: dtype, promotion, views, in-place, tape, dispatch, random streams."""
