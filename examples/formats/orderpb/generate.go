// Package orderpb has the messages of order.proto.
package orderpb

//go:generate sh -c "protoc --plugin=protoc-gen-go=$DOLLAR(go tool -n protoc-gen-go) --go_out=. --go_opt=paths=source_relative order.proto"
