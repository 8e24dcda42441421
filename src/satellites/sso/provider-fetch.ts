/**
 * Sends openid-client's requests through the egress guard, with a deadline and a size limit. Redirects are not followed. Of the
 * response headers, only the media type is passed on.
 */
import type { CustomFetch } from 'openid-client'
import type { Egress } from '../../kernel/egress/egress.ts'
import { IdentityProviderError } from './provider-failure.ts'

const MAX_RESPONSE_BYTES = 256 * 1024
/** Statuses of responses without a body. */
const BODILESS = [204, 205, 304]
const TYPE = /^[\x20-\x7e]{1,200}$/

export const providerFetch =
  (egress: Egress, timeoutMs: number): CustomFetch =>
  async (url, { method, headers, body }) => {
    const { status, error, isCut, ...response } = await egress.send({
      url,
      method: method === 'POST' ? 'POST' : 'GET',
      headers: { ...headers, 'accept-encoding': 'identity' },
      ...(body === undefined || body === null ? {} : { body: String(body) }),
      timeoutMs,
      maxResponseBytes: MAX_RESPONSE_BYTES,
    })
    if (status === null || error !== null)
      throw new IdentityProviderError(`the provider is unreachable: ${error}`, true)
    if (isCut)
      throw new IdentityProviderError(`the provider responded with more than ${MAX_RESPONSE_BYTES} bytes`, false)
    if (status >= 500 || status === 429) throw new IdentityProviderError(`the provider responded with ${status}`, true)
    if (status < 200) throw new IdentityProviderError('the provider responded with an invalid status', false)
    const type = response.headers['content-type'] ?? ''
    return new Response(BODILESS.includes(status) ? null : response.body, {
      status,
      headers: TYPE.test(type) ? { 'content-type': type } : {},
    })
  }
