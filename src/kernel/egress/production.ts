/** What is for development alone: in production nothing of ours calls the own network, or in the clear. */
import type { EgressSettings } from './url.ts'

/** Settings that may not be on in production, each in words. */
export const rejectedInProduction = ({
  allowPrivateNetworks = false,
  allowHttp = false,
}: EgressSettings = {}): string[] => [
  ...(allowPrivateNetworks ? ['egress.allowPrivateNetworks: for development only, rejected in production'] : []),
  ...(allowHttp ? ['egress.allowHttp: for development only, rejected in production'] : []),
]
