/** Lists egress settings that are for development only: private networks and plain HTTP. */
import type { EgressSettings } from './url.ts'

/** Settings that may not be on in production, each in words. */
export const rejectedInProduction = ({
  allowPrivateNetworks = false,
  allowHttp = false,
}: EgressSettings = {}): string[] => [
  ...(allowPrivateNetworks ? ['egress.allowPrivateNetworks: for development only, rejected in production'] : []),
  ...(allowHttp ? ['egress.allowHttp: for development only, rejected in production'] : []),
]
