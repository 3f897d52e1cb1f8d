package keyspace

// Match says whether s matches a glob as Redis understands it: * any run of bytes, ? any byte, [a-z] and [^a-z] a class, and
// a backslash takes the next byte as it is. A class without its bracket ends with the pattern.
//
// It never tries more than one length for each star but the last, so its time is bounded by len(pattern) times len(s):
// between two stars, the first place where the part fits is as good as any later one.
func Match(pattern, s []byte) bool {
	star, retry := -1, 0 // pattern after the last star; where in s that star's run ends next
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, retry = p, i
			continue
		}
		if p < len(pattern) {
			if ok, n := matchOne(pattern[p:], s[i]); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		retry++
		p, i = star, retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte against the element at the front of a pattern, and returns the element's length.
func matchOne(pattern []byte, c byte) (ok bool, n int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchClass(pattern, c)
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == c, 2
		}
	}
	return pattern[0] == c, 1
}

// matchClass matches a byte against the class at the front of a pattern.
func matchClass(pattern []byte, c byte) (ok bool, n int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == c
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := pattern[i], pattern[i+2]
			if lo > hi {
				lo, hi = hi, lo
			}
			ok = ok || c >= lo && c <= hi
			i += 2
		default:
			ok = ok || pattern[i] == c
		}
	}
	return ok != not, min(i+1, len(pattern))
}
