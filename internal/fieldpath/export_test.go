package fieldpath

var ErrInvalid = errInvalid
