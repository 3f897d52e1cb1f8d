package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"cvmstore/epoch/wire"
)

// Post sends one of the operator's requests (docs/COUNTER.md): freeze, thaw, enrol, create, allow, disallow, order.
func (c *Client) Post(ctx context.Context, what string, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return c.try(ctx, func(ctx context.Context, u string) error {
		_, err := c.post(ctx, u, "/v1/operator/"+url.PathEscape(what), "application/json", body)
		return err
	})
}

// Get fetches one page of a listing, or the service's description, into answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.try(ctx, func(ctx context.Context, u string) error {
		text, err := c.post(ctx, u, "/v1/"+path, "application/json", nil)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("%w: %w", wire.ErrMalformed, err)
		}
		return nil
	})
}
