/**
 * Self-signed certificates of test servers, for `hooks.example.com` and 127.0.0.1. A client trusts one that it gets as an authority.
 * The key is public and for tests only.
 */
export interface Certificate {
  readonly key: string
  readonly cert: string
}

const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglJt77O9KNbfAZ5tm
wIXEzleyazO2ZSVHsrVMDrWUmiehRANCAATI3GYUajx1ouKqWiI5zGbTgsysHQ2D
oYOhqATXzu/+jgu3T0RaqHz3BaCu3byj8nUu6qComVHaOYKbn0Ye+Aif
-----END PRIVATE KEY-----
`

/** Valid until 2120. */
export const certificate: Certificate = {
  key: KEY,
  cert: `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIBATAKBggqhkjOPQQDAjAcMRowGAYDVQQDDBFob29rcy5l
eGFtcGxlLmNvbTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowHDEa
MBgGA1UEAwwRaG9va3MuZXhhbXBsZS5jb20wWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAATI3GYUajx1ouKqWiI5zGbTgsysHQ2DoYOhqATXzu/+jgu3T0RaqHz3BaCu
3byj8nUu6qComVHaOYKbn0Ye+Aifo1YwVDAPBgNVHRMBAf8EBTADAQH/MCIGA1Ud
EQQbMBmCEWhvb2tzLmV4YW1wbGUuY29thwR/AAABMB0GA1UdDgQWBBTlrCbUtP86
X4TaaRApKrE36jiaGDAKBggqhkjOPQQDAgNHADBEAiBZKZh6gn64MQYzP5psS7YZ
+BK/V88wrGBcU/h2FirDLQIgNYyDTTAHkb/xPi1jmiRVq8I9+I6so58ZoHMDrZCY
hYo=
-----END CERTIFICATE-----
`,
}

/** Expired in 2021. */
export const expiredCertificate: Certificate = {
  key: KEY,
  cert: `-----BEGIN CERTIFICATE-----
MIIBfTCCASOgAwIBAgIBAjAKBggqhkjOPQQDAjAcMRowGAYDVQQDDBFob29rcy5l
eGFtcGxlLmNvbTAeFw0yMDAxMDEwMDAwMDBaFw0yMTAxMDEwMDAwMDBaMBwxGjAY
BgNVBAMMEWhvb2tzLmV4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcD
QgAEyNxmFGo8daLiqloiOcxm04LMrB0Ng6GDoagE187v/o4Lt09EWqh89wWgrt28
o/J1LuqgqJlR2jmCm59GHvgIn6NWMFQwDwYDVR0TAQH/BAUwAwEB/zAiBgNVHREE
GzAZghFob29rcy5leGFtcGxlLmNvbYcEfwAAATAdBgNVHQ4EFgQU5awm1LT/Ol+E
2mkQKSqxN+o4mhgwCgYIKoZIzj0EAwIDSAAwRQIhANJJlKcWmtasFmYU6EwtCHbk
8n5MAxTJrpKJW3pjlINrAiAMVyh2Xk5OCECxSBY2IqFsgRzuOO0ATp3hpFs+mIJP
lQ==
-----END CERTIFICATE-----
`,
}
