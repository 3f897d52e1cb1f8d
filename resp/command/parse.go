package command

import "math"

// parseInt parses a decimal as strictly as Redis does: no sign but '-', no leading zeros, nothing around it.
func parseInt(b []byte) (int64, error) {
	neg := len(b) > 1 && b[0] == '-'
	digits := b
	if neg {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || neg) {
		return 0, errNotInteger
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, errNotInteger
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case neg && n <= 1<<63:
		return -int64(n), nil
	case !neg && n <= math.MaxInt64:
		return int64(n), nil
	}
	return 0, errNotInteger
}

// printable reports whether b may be a client's name: no spaces, no control characters, ASCII.
func printable(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// timeUnit is how an expiry is written: seconds or milliseconds, from now or absolute.
type timeUnit struct {
	seconds  bool
	absolute bool
}

var (
	unitEX   = timeUnit{seconds: true}
	unitPX   = timeUnit{}
	unitEXAT = timeUnit{seconds: true, absolute: true}
	unitPXAT = timeUnit{absolute: true}
)

// expiry turns an expiry argument into absolute store time in milliseconds; ok is false when it is out of range.
func (u timeUnit) expiry(n, now int64) (at int64, ok bool) {
	if u.seconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, false
		}
		n *= 1000
	}
	if !u.absolute {
		if n > math.MaxInt64-now {
			return 0, false
		}
		n += now
	}
	return n, true
}

// positiveExpiry is expiry for commands that refuse times that are not positive.
func (u timeUnit) positiveExpiry(c *Ctx, arg []byte) (int64, error) {
	n, err := parseInt(arg)
	if err != nil {
		return 0, err
	}
	at, ok := u.expiry(n, c.Tx.Now())
	if n <= 0 || !ok {
		return 0, invalidExpire(c)
	}
	return at, nil
}
