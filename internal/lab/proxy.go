// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A proxy is a real nginx that hands each request to the next instance.
type proxy struct {
	dir         string
	spread      bool           // each request goes to an instance by chance, and to another one if that is not there
	plain, safe netip.AddrPort // where it speaks HTTP, and where HTTPS
	roots       *x509.CertPool // of its certificate
	cmd         *exec.Cmd
	gone        chan error // what Wait has said
}

// errNoProxy says that there is nothing to stand in front of the instances.
var errNoProxy = errors.New("nginx is not here (on Debian: apt-get install nginx)")

// nginx returns the program.
func nginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} { // where no path of a user leads
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errNoProxy
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
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_cache shared;
			add_header Lab-Cache $upstream_cache_status always;
		}
		location / {
			proxy_pass http://instances;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_request_buffering off;
			client_max_body_size 64m;
			proxy_next_upstream %[5]s;
		}
	}
}
`

// newProxy makes what a proxy needs before it can start, its certificate among it.
func newProxy(dir string, spread bool) (*proxy, error) {
	p := &proxy{dir: dir, spread: spread}
	return p, p.certify()
}

// start starts the proxy. Its ports are free a moment before, which is no promise:
// it has further tries.
func (p *proxy) start(ctx context.Context, instances []netip.AddrPort) error {
	program, err := nginx()
	if err != nil {
		return err
	}
	for range 5 {
		if err = p.listen(ctx, program, instances); err == nil {
			return nil
		}
	}
	return err
}

// listen starts nginx, and waits until it accepts connections.
func (p *proxy) listen(ctx context.Context, program string, instances []netip.AddrPort) (err error) {
	if p.plain, err = free(); err != nil {
		return err
	}
	if p.safe, err = free(); err != nil {
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
	text := fmt.Sprintf(configuration, p.dir, upstream.String(), p.plain, p.safe, another)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, "-e", filepath.Join(p.dir, "nginx.log"), "-p", p.dir, "-c", file)
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the lab
	if err := cmd.Start(); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for {
		if conn, err := net.Dial("tcp", p.safe.String()); err == nil {
			p.cmd, p.gone = cmd, gone
			return conn.Close()
		}
		select {
		case err := <-gone:
			return fmt.Errorf("nginx ends: %w\n%s", err, said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop ends the proxy.
func (p *proxy) stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Kill()
	var exit *exec.ExitError
	if err := <-p.gone; err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// free returns an address that was free a moment ago.
func free() (netip.AddrPort, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.MustParseAddrPort(l.Addr().String()), l.Close()
}

// certify makes a certificate that none but the lab believes.
func (p *proxy) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	p.roots = x509.NewCertPool()
	p.roots.AppendCertsFromPEM(text)
	return errors.Join(
		os.WriteFile(filepath.Join(p.dir, "certificate.pem"), text, 0o600),
		os.WriteFile(filepath.Join(p.dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
}
