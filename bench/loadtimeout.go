package bench

import "time"

// loadTimeout bounds one run of a load.
const loadTimeout = 2 * time.Minute
