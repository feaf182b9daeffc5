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
)

// A Proxy is a real nginx that hands each request to the next instance.
type Proxy struct {
	dir         string
	spread      bool           // each request goes to an instance by chance, and to another one if that is not there
	Plain, Safe netip.AddrPort // where it speaks HTTP, and where HTTPS
	*program
}

// FindNginx returns the program.
func FindNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} { // where no path of a user leads
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("nginx is not here (on Debian: apt-get install nginx)")
}

// One worker, so that the turns are those of the whole, and no instance is left out because
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
			proxy_next_upstream %[5]s;
		}
	}
}
`

// start starts the proxy. Its ports are free a moment before, which is no promise:
// it has further tries.
func (p *Proxy) start(ctx context.Context, instances []netip.AddrPort) error {
	nginx, err := FindNginx()
	if err != nil {
		return err
	}
	for range 5 {
		if err = p.listen(ctx, nginx, instances); err == nil {
			return nil
		}
	}
	return err
}

// listen starts nginx, and waits until it accepts connections.
func (p *Proxy) listen(ctx context.Context, nginx string, instances []netip.AddrPort) (err error) {
	if p.Plain, err = free(); err != nil {
		return err
	}
	if p.Safe, err = free(); err != nil {
		return err
	}
	var upstream strings.Builder
	another := "off"
	if p.spread {
		upstream.WriteString("\t\trandom;\n")
		another = "error" // a POST is sent again only where nothing of it was sent
	}
	for _, i := range instances {
		fmt.Fprintf(&upstream, "\t\tserver %s max_fails=0;\n", i)
	}
	file := filepath.Join(p.dir, "nginx.conf")
	text := fmt.Sprintf(configuration, p.dir, upstream.String(), p.Plain, p.Safe, another)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, nginx, "-e", filepath.Join(p.dir, "nginx.log"), "-p", p.dir, "-c", file)
	cmd.Stderr = &said
	if p.program, err = launch(cmd); err != nil {
		return err
	}
	if err := p.ready(func() bool {
		conn, err := net.Dial("tcp", p.Safe.String())
		return err == nil && conn.Close() == nil
	}); err != nil {
		p.program = nil
		return fmt.Errorf("nginx ends: %w\n%s", err, said.String())
	}
	return nil
}

// certify writes the certificate of net/http's own tests, which is for this machine, and returns who believes it.
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
