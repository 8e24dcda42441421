/**
 * Checks the `Host` of requests for probes and metrics, against DNS rebinding: a web page can point its own name to a loopback address,
 * and its requests then name the host of the page.
 *
 *   loopback name (`localhost`, `127.0.0.1`, `[::1]`)   always allowed
 *   another name, with `allowedHosts`                   allowed if it is listed, or `*` is
 *   another name, without `allowedHosts`                allowed unless the connection comes from a loopback address
 */

import { defineError, InvalidRequest } from '../kernel/base/errors.ts'
import { isAddressAmong } from '../kernel/egress/addresses.ts'

export const HostNotAllowed = defineError('E_HOST_NOT_ALLOWED', 421, 'The host is not allowed')

const ANY = '*'
const LOOPBACK = ['127.0.0.0/8', '::1']

/** Whether a text is `*`, or a host name or address as a URL has it, without a port: `status.example.com`, `192.0.2.1`, `[2001:db8::1]`. */
export const isAllowedHost = (text: string): boolean =>
  text === ANY || URL.parse(`http://${text}`)?.hostname === text.toLowerCase()

/** Throws for an invalid host. The returned function throws `E_HOST_NOT_ALLOWED`; `socketIp` is the address of the connection, if it is known. */
export function hostCheck(
  allowedHosts: readonly string[] | undefined,
): (request: Request, socketIp: string | null | undefined) => void {
  const wrong = allowedHosts?.find((host) => !isAllowedHost(host))
  if (wrong !== undefined) throw new Error(`allowedHosts: "${wrong}" is not a host name without a port`)
  const allowed = allowedHosts && new Set(allowedHosts.map((host) => host.toLowerCase()))
  return ({ url }, socketIp) => {
    const hostname = URL.parse(url)?.hostname
    if (hostname === undefined) throw InvalidRequest('The Host header has no valid host name.')
    if (isLoopbackName(hostname)) return
    const isAllowed = allowed ? allowed.has(ANY) || allowed.has(hostname) : !isAddressAmong(socketIp ?? '', LOOPBACK)
    if (!isAllowed) throw HostNotAllowed('The Host header names a host that is not in the setting allowedHosts.')
  }
}

const isLoopbackName = (hostname: string): boolean =>
  hostname === 'localhost' ||
  hostname.endsWith('.localhost') ||
  isAddressAmong(hostname.replace(/^\[(.*)\]$/, '$1'), LOOPBACK)
