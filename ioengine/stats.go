package ioengine

import "time"

// Stats counts what an engine did.
type Stats struct {
	BytesSealed, BytesOpened uint64        // plaintext
	BytesWritten, BytesRead  uint64        // at the device, completed
	Chunks                   uint64        // sealed or opened
	Crypto                   time.Duration // spent sealing and opening
	CryptoAlone              time.Duration // the part of it while nothing was in flight: not overlapped
}

// Stats returns what the engine did so far.
func (e *Engine) Stats() Stats { return e.stats }

// cryptoBegin and cryptoEnd stand around sealing or opening a chunk and count the time that it takes.
func (e *Engine) cryptoBegin() (start time.Duration, alone bool) {
	return e.opts.Clock(), e.queue.Outstanding() == 0
}

func (e *Engine) cryptoEnd(start time.Duration, alone bool) {
	took := e.opts.Clock() - start
	e.stats.Crypto += took
	if alone {
		e.stats.CryptoAlone += took
	}
	e.stats.Chunks++
}
