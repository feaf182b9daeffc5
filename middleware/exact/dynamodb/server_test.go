// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/dynamodb"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

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
	_, err := c.CreateTable(t.Context(), &sdk.CreateTableInput{
		TableName:            aws.String("tallies"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("name"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("name"), KeyType: types.KeyTypeHash}},
	})
	require.NoError(t, err)
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
	store, err := dynamodb.New(client(url), dynamodb.Config{Table: "tallies"})
	require.NoError(t, err)
	return store
}
