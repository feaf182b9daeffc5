// SPDX-License-Identifier: Apache-2.0

package dynamodb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/storeless"
)

// A Config says which table is counted in.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Table is its name, or its ARN. Required.
	Table string
}

// store implements [cas.ListedStore] on a table.
type store struct {
	client *dynamodb.Client
	table  string
}

// New returns a store in a table, by a client. It makes no call: a table that is not there is
// an error of the first. The store is safe for concurrent use, and needs no closing. Each reads all of the
// table, a megabyte at a time, which DynamoDB bills.
func New(client *dynamodb.Client, cfg Config) (cas.ListedStore, error) {
	var errs []error
	if client == nil {
		errs = append(errs, &storeless.ConfigError{Field: "client", Problem: "is nil"})
	}
	if cfg.Table == "" {
		errs = append(errs, &storeless.ConfigError{Field: "Table", Problem: "is required"})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &store{client, cfg.Table}, nil
}

// Attributes of an item.
const (
	nameAttribute     = "name"
	valueAttribute    = "value"
	revisionAttribute = "revision"
	expiresAttribute  = "expires"
)

// largest is how many bytes a value has at most: an item takes 400 kB with its attributes'
// names.
const largest = 400<<10 - 256

// once has the SDK make a call once, see the package.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// Load implements [cas.Store].
func (s *store) Load(ctx context.Context, name string) (value []byte, revision string, err error) {
	get := &dynamodb.GetItemInput{
		TableName:                &s.table,
		Key:                      map[string]types.AttributeValue{nameAttribute: &types.AttributeValueMemberS{Value: name}},
		ConsistentRead:           aws.Bool(true),
		ProjectionExpression:     aws.String("#v, #r"),
		ExpressionAttributeNames: map[string]string{"#v": valueAttribute, "#r": revisionAttribute},
	}
	item, err := s.client.GetItem(ctx, get, once)
	if errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
		// Now and then net/http closes a connection under a large answer that is being read
		// (aws/aws-sdk-go-v2 issues 1825 and 2737). That says nothing of the table.
		item, err = s.client.GetItem(ctx, get, once)
	}
	switch {
	case throttled(err):
		return nil, "", fmt.Errorf("%w: dynamodb: %w", exact.ErrBusy, err)
	case err != nil:
		return nil, "", fmt.Errorf("dynamodb: %w", err)
	case len(item.Item) == 0:
		return nil, "", nil
	}
	v, isValue := item.Item[valueAttribute].(*types.AttributeValueMemberB)
	r, isRevision := item.Item[revisionAttribute].(*types.AttributeValueMemberS)
	if !isValue || !isRevision || r.Value == "" {
		return nil, "", errForeign
	}
	return v.Value, r.Value, nil
}

// Each implements [cas.ListedStore]: see [New].
func (s *store) Each(ctx context.Context, f func(name string, value []byte) error) error {
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName:                &s.table,
		ConsistentRead:           aws.Bool(true),
		ProjectionExpression:     aws.String("#n, #v"),
		ExpressionAttributeNames: map[string]string{"#n": nameAttribute, "#v": valueAttribute},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("dynamodb: %w", err)
		}
		for _, item := range page.Items {
			n, isName := item[nameAttribute].(*types.AttributeValueMemberS)
			v, isValue := item[valueAttribute].(*types.AttributeValueMemberB)
			if !isName || !isValue {
				return errForeign
			}
			if err := f(n.Value, v.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

var errForeign = errors.New("dynamodb: an item that is none of ours")

// Swap implements [cas.Store].
func (s *store) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	if len(value) > largest {
		return fmt.Errorf("%w: dynamodb: an item of %d bytes", exact.ErrFull, len(value))
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	put := &dynamodb.PutItemInput{
		TableName: &s.table,
		Item: map[string]types.AttributeValue{
			nameAttribute:     &types.AttributeValueMemberS{Value: name},
			valueAttribute:    &types.AttributeValueMemberB{Value: value},
			revisionAttribute: &types.AttributeValueMemberS{Value: rand.Text()},
			// By the clock of this instance: keep has room for one that differs.
			expiresAttribute: &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(keep).Unix()+1, 10)},
		},
		ConditionExpression:      aws.String("attribute_not_exists(#r)"),
		ExpressionAttributeNames: map[string]string{"#r": revisionAttribute},
	}
	if revision != "" {
		put.ConditionExpression = aws.String("#r = :r")
		put.ExpressionAttributeValues = map[string]types.AttributeValue{":r": &types.AttributeValueMemberS{Value: revision}}
	}
	_, err := s.client.PutItem(ctx, put, once)
	return classify(err)
}

// classify says what has become of a swap.
func classify(err error) error {
	var changed *types.ConditionalCheckFailedException
	var answer *smithyhttp.ResponseError
	var dial *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &changed):
		return cas.ErrChanged
	case throttled(err):
		return fmt.Errorf("%w: dynamodb: %w", exact.ErrBusy, err)
	case errors.As(err, &answer) && answer.HTTPStatusCode()/100 == 4, // it was refused
		errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: dynamodb: %w", exact.ErrNotCounted, err)
	}
	return fmt.Errorf("dynamodb: %w", err)
}

// throttled reports whether a call was refused because there are too many.
func throttled(err error) bool {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return false
	}
	switch said.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return false
}
