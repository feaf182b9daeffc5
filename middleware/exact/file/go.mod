module github.com/tallystick/tallystick/middleware/exact/file

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/tallystick/tallystick v0.0.0
	golang.org/x/sys v0.49.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/tallystick/tallystick => ../../..
