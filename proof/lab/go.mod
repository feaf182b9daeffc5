module github.com/tallystick/tallystick/proof/lab

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/tallystick/tallystick v0.0.0
	github.com/tallystick/tallystick/middleware/exact/redis v0.0.0
)

require (
	github.com/gabriel-vasile/mimetype v1.4.10 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.28.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.56.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/tallystick/tallystick => ../..
	github.com/tallystick/tallystick/middleware/exact/redis => ../../middleware/exact/redis
)
