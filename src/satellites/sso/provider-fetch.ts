/**
 * How openid-client speaks with a provider: each request is an exchange of the egress guard, with a deadline and a bound on what is
 * read. No redirect is followed, and of the headers of an answer only its type is passed on.
 */
import type { CustomFetch } from 'openid-client'
import type { Egress } from '../../kernel/egress/egress.ts'
import { IdentityProviderError } from './provider-failure.ts'

const MAX_RESPONSE_BYTES = 256 * 1024
/** Statuses of answers that have no body. */
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
      throw new IdentityProviderError(`the provider cannot be reached: ${error}`, true)
    if (isCut) throw new IdentityProviderError(`the provider answered more than ${MAX_RESPONSE_BYTES} bytes`, false)
    if (status >= 500 || status === 429) throw new IdentityProviderError(`the provider answered ${status}`, true)
    if (status < 200) throw new IdentityProviderError('the provider answered no status of an answer', false)
    const type = response.headers['content-type'] ?? ''
    return new Response(BODILESS.includes(status) ? null : response.body, {
      status,
      headers: TYPE.test(type) ? { 'content-type': type } : {},
    })
  }
