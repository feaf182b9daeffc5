// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tallystick/tallystick/proof/program"
)

// A Proxy is a real nginx that hands each request to the next instance.
type Proxy struct {
	Plain, Safe string // where it speaks HTTP, and where HTTPS
	*program.Server
}

// findNginx returns the program.
func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} { // where no path of a user leads
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("nginx is not here (on Debian: apt-get install nginx)")
}

// Stands says why the lab cannot stand on this machine, or nil.
func Stands() error {
	_, proxy := findNginx()
	_, counter := program.FindRedis()
	if err := errors.Join(proxy, counter); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.16.0.1:0")
	if err != nil {
		return fmt.Errorf("every client needs a loopback address of its own, as Linux has them: %w", err)
	}
	return l.Close()
}

// One worker, so that all requests take turns, and no instance is left out because
// it was slow. The peer is appended to what the client says of itself, as most do.
const configuration = `
daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log crit;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	proxy_cache_path %[1]s/cache keys_zone=shared:1m use_temp_path=off;
	keepalive_requests 1000000;
	keepalive_timeout 1h;
	proxy_read_timeout 1h;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header Host $http_host;
	proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
	upstream instances {
%[2]s		keepalive 64;
		keepalive_requests 1000000;
	}
	server {
		listen %[3]s backlog=4096;
		listen %[4]s ssl backlog=4096;
		ssl_certificate %[1]s/certificate.pem;
		ssl_certificate_key %[1]s/key.pem;
		location /cached {
			proxy_pass http://instances;
			proxy_cache shared;
			add_header Lab-Cache $upstream_cache_status always;
		}
		location / {
			proxy_pass http://instances;
			proxy_request_buffering off;
			client_max_body_size 64m;
			proxy_next_upstream off;
		}
	}
}
`

// startProxy starts the proxy, and waits until it accepts connections.
func startProxy(ctx context.Context, dir string, instances []netip.AddrPort) (p *Proxy, err error) {
	nginx, err := findNginx()
	if err != nil {
		return nil, err
	}
	var upstream, said strings.Builder
	for _, i := range instances {
		fmt.Fprintf(&upstream, "\t\tserver %s max_fails=0;\n", i)
	}
	plain, err := program.FreePort()
	if err != nil {
		return nil, err
	}
	p = &Proxy{Plain: "127.0.0.1:" + plain}
	file := filepath.Join(dir, "nginx.conf")
	p.Server, err = program.Serve(func(safe string) *exec.Cmd {
		p.Safe = "127.0.0.1:" + safe
		err := os.WriteFile(file, fmt.Appendf(nil, configuration, dir, upstream.String(), p.Plain, p.Safe), 0o600)
		cmd := exec.CommandContext(ctx, nginx, "-e", filepath.Join(dir, "nginx.log"), "-p", dir, "-c", file)
		cmd.Stderr, cmd.Err = &said, errors.Join(cmd.Err, err)
		return cmd
	}, program.Accepts)
	if err != nil {
		return nil, fmt.Errorf("nginx ends: %w\n%s", err, said.String())
	}
	return p, nil
}

// certify writes the certificate of net/http's own tests, which is for this machine, and returns a pool that trusts it.
func certify(dir string) (*x509.CertPool, error) {
	known := httptest.NewTLSServer(nil)
	defer known.Close()
	private, err := x509.MarshalPKCS8PrivateKey(known.TLS.Certificates[0].PrivateKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	return roots, errors.Join(
		os.WriteFile(filepath.Join(dir, "certificate.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
}
