/** What a login ends with when it is refused. A provider's own words are in the log, never here. */
import { z } from 'zod'
import { defineError } from '../../kernel/base/errors.ts'

/**
 *   state                 unknown, used, too old, or of another tenant
 *   browser               it was begun in another browser
 *   changed               the settings were changed while it was under way
 *   callback              it came back to a callback that is not the tenant's
 *   denied                the person, or the provider for them, declined
 *   interaction-required  the provider would have to ask the person something, and `prompt: 'none'` forbids it
 *   provider-error        the provider answered another error
 *   answer                what the provider answered is not to be trusted
 */
export const REASONS = [
  'state',
  'browser',
  'changed',
  'callback',
  'denied',
  'interaction-required',
  'provider-error',
  'answer',
] as const
export type Reason = (typeof REASONS)[number]

export const SsoFailed = defineError('E_SSO_FAILED', 401, 'The login failed', {
  members: { reason: z.enum(REASONS) },
})
export const SsoNotEnabled = defineError('E_SSO_NOT_ENABLED', 409, 'Single sign-on is not enabled')
export const SsoRedirectUriTaken = defineError('E_SSO_REDIRECT_URI_TAKEN', 409, 'The callback is of another issuer')
export const SsoDomainNotAllowed = defineError('E_SSO_DOMAIN_NOT_ALLOWED', 403, 'The mail address is not allowed')
export const SsoProviderUnavailable = defineError(
  'E_SSO_PROVIDER_UNAVAILABLE',
  503,
  'The identity provider cannot be used at the moment',
)

const WORDS: Readonly<Record<Reason, string>> = {
  state: 'This login is not known, was used already, or took too long. Begin again.',
  browser: 'This login was begun in another browser. Begin again.',
  changed: 'The settings of single sign-on were changed meanwhile. Begin again.',
  callback: 'This login came back to the callback of another one. Begin again.',
  denied: 'The login was declined.',
  'interaction-required': 'The identity provider has to ask something first. Begin again without prompt "none".',
  'provider-error': 'The identity provider answered an error.',
  answer: 'What the identity provider answered cannot be trusted.',
}

export const failed = (reason: Reason) => SsoFailed(WORDS[reason], { extras: { reason } })
