/** Errors of a login. The log has the provider's message; responses never quote it. */
import { z } from 'zod'
import { defineError } from '../../kernel/base/errors.ts'

/**
 *   state                 unknown, used, expired, or of another tenant
 *   browser               started in another browser
 *   changed               the settings changed during the login
 *   callback              returned to the callback of another tenant
 *   denied                the user, or the provider, declined
 *   interaction-required  the provider needs input, and `prompt: 'none'` forbids it
 *   provider-error        the provider returned another error
 *   answer                the provider's response is not trustworthy
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

export const SsoFailed = defineError('E_SSO_FAILED', 401, 'Login failed', {
  members: { reason: z.enum(REASONS) },
})
export const SsoNotEnabled = defineError('E_SSO_NOT_ENABLED', 409, 'Single sign-on not enabled')
export const SsoRedirectUriTaken = defineError('E_SSO_REDIRECT_URI_TAKEN', 409, 'Callback of another issuer')
export const SsoDomainNotAllowed = defineError('E_SSO_DOMAIN_NOT_ALLOWED', 403, 'Mail address not allowed')
export const SsoProviderUnavailable = defineError('E_SSO_PROVIDER_UNAVAILABLE', 503, 'Identity provider unavailable')

const WORDS: Readonly<Record<Reason, string>> = {
  state: 'This login is unknown, was used before, or has expired. Start again.',
  browser: 'This login was started in another browser. Start again.',
  changed: 'The settings of single sign-on have changed during this login. Start again.',
  callback: 'This login returned to the callback of another tenant. Start again.',
  denied: 'The login was declined.',
  'interaction-required': 'The identity provider needs input from the user. Start again without prompt "none".',
  'provider-error': 'The identity provider returned an error.',
  answer: "The identity provider's response is not trustworthy.",
}

export const failed = (reason: Reason) => SsoFailed(WORDS[reason], { extras: { reason } })
