// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestStore(t *testing.T) {
	require.NoError(t, castest.TestStore(connect(t, url(startServer(t).Addr())), 380<<10)) // of an item of 400 kB
}

func TestCounter(t *testing.T) { exactkit.OnAStore(t, connect(t, url(startServer(t).Addr()))) }

// The attribute of the time to live is a number of seconds since 1970, which each charge
// renews. A client that has read an item does not win it after it expired, nor after it
// was made anew.
func TestValuesExpire(t *testing.T) {
	s := startServer(t)
	store, c := connect(t, url(s.Addr())), client(url(s.Addr()))
	key := map[string]types.AttributeValue{"name": &types.AttributeValueMemberS{Value: "n"}}
	revision := ""
	for _, keep := range []time.Duration{time.Hour, time.Minute} {
		before := time.Now()
		require.NoError(t, store.Swap(t.Context(), "n", revision, []byte("value"), keep))
		item, err := c.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("tallies"), Key: key})
		require.NoError(t, err)
		at := kit.Must(strconv.ParseInt(item.Item["expires"].(*types.AttributeValueMemberN).Value, 10, 64))(t)
		require.GreaterOrEqual(t, at, before.Add(keep).Unix())
		require.LessOrEqual(t, at, time.Now().Add(keep).Unix()+1)
		_, revision, err = store.Load(t.Context(), "n")
		require.NoError(t, err)
	}
	kit.Must(c.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: aws.String("tallies"), Key: key}))(t)
	require.ErrorIs(t, store.Swap(t.Context(), "n", revision, []byte("late"), time.Hour), cas.ErrChanged)
	for range 3 { // as often as before, and once more
		_, last, err := store.Load(t.Context(), "n")
		require.NoError(t, err)
		require.NoError(t, store.Swap(t.Context(), "n", last, []byte("anew"), time.Hour))
		require.ErrorIs(t, store.Swap(t.Context(), "n", revision, []byte("late"), time.Hour), cas.ErrChanged)
	}
}

func TestWhatIsTooLargeIsLoad(t *testing.T) {
	store := connect(t, url(startServer(t).Addr()))
	require.ErrorIs(t, store.Swap(t.Context(), "n", "", make([]byte, 400<<10), time.Hour), exact.ErrFull)
}

// What a service answers, or does not: whether the swap may have been done, and whether it is
// load.
func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		code    string
		status  int
		is, not error
	}{
		{"ConditionalCheckFailedException", 400, cas.ErrChanged, exact.ErrNotCounted},
		{"ProvisionedThroughputExceededException", 400, exact.ErrBusy, cas.ErrChanged},
		{"ThrottlingException", 400, exact.ErrBusy, cas.ErrChanged},
		{"RequestLimitExceeded", 400, exact.ErrBusy, cas.ErrChanged},
		{"ResourceNotFoundException", 400, exact.ErrNotCounted, exact.ErrBusy},
		{"AccessDeniedException", 400, exact.ErrNotCounted, exact.ErrBusy},
		{"InternalServerError", 500, nil, exact.ErrNotCounted},
		{"ServiceUnavailable", 503, nil, exact.ErrNotCounted},
		{"Unheard", 502, nil, exact.ErrNotCounted},
	} {
		t.Run(tc.code, func(t *testing.T) {
			calls := 0
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"no"}`, tc.code)
			}))
			defer h.Close()
			err := connect(t, h.URL).Swap(t.Context(), "n", "1", []byte("v"), time.Hour)
			require.Error(t, err)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			require.NotErrorIs(t, err, tc.not)
			require.Equal(t, 1, calls, "the SDK does not repeat it")
		})
	}
	require.ErrorIs(t, connect(t, url("127.0.0.1:"+kit.FreePort(t))).Swap(t.Context(), "n", "1", []byte("v"), time.Hour), exact.ErrNotCounted, "it was not sent")
}

// A throttled load is load too, and foreign items are not counted in.
func TestLoads(t *testing.T) {
	for body, is := range map[string]error{
		`{"__type":"ThrottlingException"}`:     exact.ErrBusy,
		`{"Item":{"value":{"S":"of others"}}}`: nil,
	} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if is != nil {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write([]byte(body))
		}))
		_, _, err := connect(t, h.URL).Load(t.Context(), "n")
		h.Close()
		require.Error(t, err)
		if is != nil {
			require.ErrorIs(t, err, is)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	_, err := dynamodb.New(nil, dynamodb.Config{})
	require.ErrorContains(t, err, "client: is nil")
	require.ErrorContains(t, err, "Table: is required")
}

// A connection that this side has closed under an answer is no outage: the value is read once more.
// If that happens again it is told.
func TestAnswerOfAClosedConnection(t *testing.T) {
	for closed, want := range map[int]int{0: 1, 1: 2, 2: 2, 3: 2} {
		calls := 0
		store := kit.Must(dynamodb.New(sdk.New(sdk.Options{
			Region:      "eu-central-1",
			Credentials: aws.AnonymousCredentials{},
			HTTPClient: answers(func(r *http.Request) (*http.Response, error) {
				calls++
				body := io.Reader(strings.NewReader("{}"))
				if calls <= closed {
					body = iotest.ErrReader(&net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed})
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
			}),
		}), dynamodb.Config{Table: "tallies"}))(t)
		value, _, err := store.Load(t.Context(), "a")
		require.Nil(t, value)
		require.Equal(t, want, calls, "%d times closed", closed)
		if closed < 2 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, net.ErrClosed)
		}
	}
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) Do(r *http.Request) (*http.Response, error) { return a(r) }

func TestMain(m *testing.M) {
	exactkit.Process(func(url string) (exact.Counter, error) {
		store, err := dynamodb.New(client(url), dynamodb.Config{Table: "tallies"})
		if err != nil {
			return nil, err
		}
		return cas.New(store, cas.Config{})
	})
	os.Exit(m.Run())
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000: exactly
// 1000 pass, and exactly 1000 are counted also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "starts processes for half a minute")
	s := startServer(t)
	exactkit.AcrossProcesses(t, 2, 100, s.Addr(), url, exactkit.Count(t, connect(t, url(s.Addr()))))
}

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes half a minute")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	exactkit.AmidALoad(t, exactkit.OfAServer(p, s.Kill, s.Start, s.Freeze, s.Thaw), time.Second, func(t *testing.T) exact.Counter {
		return exactkit.Count(t, connect(t, url(p.Addr().String())))
	})
}

// url is where a server, or a proxy before it, is asked.
func url(addr string) string { return "http://" + addr }

// startServer starts a dynalite of one test, which speaks the protocol of DynamoDB and keeps its
// tables in a folder.
func startServer(t testing.TB) *exactkit.Server {
	t.Helper()
	cli := filepath.Join("testdata", "dynalite", "node_modules", "dynalite", "cli.js")
	if _, err := os.Stat(cli); err != nil {
		kit.Unable(t, "there is no dynalite (.ci/need installs it, by npm)")
	}
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	dir := t.TempDir()
	s := exactkit.StartServer(t, func(port string) *exec.Cmd {
		c := exec.Command("node", cli, "--host", "127.0.0.1", "--port", port, "--path", dir, "--createTableMs", "1")
		c.Stderr = os.Stderr
		return c
	})
	c := client(url(s.Addr()))
	kit.Must(c.CreateTable(t.Context(), &sdk.CreateTableInput{
		TableName:            aws.String("tallies"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("name"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("name"), KeyType: types.KeyTypeHash}},
	}))(t)
	require.Eventually(t, func() bool {
		d, err := c.DescribeTable(context.Background(), &sdk.DescribeTableInput{TableName: aws.String("tallies")})
		return err == nil && d.Table.TableStatus == types.TableStatusActive
	}, exactkit.Patient, 20*time.Millisecond)
	return s
}

// client returns a client as programs make one, with the retries that are the SDK's default. It gives idle connections up
// before the server does, after five seconds: what a busy machine sends on one that was just closed may have been counted.
func client(url string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(url),
		HTTPClient:   awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = time.Second }),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "nobody", SecretAccessKey: "of a test"}, nil
		}),
	})
}

func connect(t testing.TB, url string) cas.ListedStore {
	t.Helper()
	return kit.Must(dynamodb.New(client(url), dynamodb.Config{Table: "tallies"}))(t)
}
