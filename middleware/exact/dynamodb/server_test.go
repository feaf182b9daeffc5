// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
)

// patient is when a test gives up on what is bound to come: a busy machine may take long, and
// no test judges how long.
const patient = 5 * time.Minute

// A server is a dynalite of one test, which speaks the protocol of DynamoDB and keeps its
// tables in a folder.
type server struct {
	t    testing.TB
	port string
	dir  string
	cmd  *exec.Cmd
}

func startServer(t testing.TB) *server {
	t.Helper()
	cli := filepath.Join("testdata", "dynalite", "node_modules", "dynalite", "cli.js")
	if _, err := os.Stat(cli); err != nil {
		testkit.Unable(t, "there is no dynalite (.ci/need installs it, by npm)")
	}
	if _, err := exec.LookPath("node"); err != nil {
		testkit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, port: strconv.Itoa(l.Addr().(*net.TCPAddr).Port), dir: t.TempDir()}
	require.NoError(t, l.Close())
	s.start()
	t.Cleanup(s.kill)
	c := client(s.url())
	_, err = c.CreateTable(t.Context(), &sdk.CreateTableInput{
		TableName:            aws.String("tallies"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("name"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("name"), KeyType: types.KeyTypeHash}},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		d, err := c.DescribeTable(context.Background(), &sdk.DescribeTableInput{TableName: aws.String("tallies")})
		return err == nil && d.Table.TableStatus == types.TableStatusActive
	}, patient, 20*time.Millisecond)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command("node", filepath.Join("testdata", "dynalite", "node_modules", "dynalite", "cli.js"),
		"--host", "127.0.0.1", "--port", s.port, "--path", s.dir, "--createTableMs", "1")
	s.cmd.Stderr = os.Stderr
	require.NoError(s.t, s.cmd.Start())
	require.Eventually(s.t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patient, 20*time.Millisecond, "it answers")
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

func (s *server) addr() string { return "127.0.0.1:" + s.port }

func (s *server) url() string { return "http://" + s.addr() }

// client returns a client as programs make one, with the retries that are the SDK's default.
func client(url string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "nobody", SecretAccessKey: "of a test"}, nil
		}),
	})
}

func connect(t testing.TB, url string) cas.ListedStore {
	t.Helper()
	store, err := dynamodb.New(client(url), dynamodb.Config{Table: "tallies"})
	require.NoError(t, err)
	return store
}

func count(t testing.TB, store cas.Store) exact.Archive {
	t.Helper()
	c, err := cas.New(store, cas.Config{})
	require.NoError(t, err)
	return c
}
