/**
 * What went wrong between us and an identity provider: as a host is told it, in words of ours, and as the log has it. openid-client
 * puts whole tokens and claims beside its errors; of those nothing but codes and sentences goes on.
 */
import {
  AuthorizationResponseError,
  ClientError,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'openid-client'
import type { TenancyError } from '../../kernel/base/errors.ts'
import { failed, type Reason, SsoProviderUnavailable } from './errors.ts'

const MAX_LOGGED_CHARACTERS = 500
const RETRY_AFTER_SECONDS = 5
/** A member of an answer is not the one that had to be there. */
const OTHER_THAN_EXPECTED = 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED'

/** An exchange without an answer that could be read. */
export class IdentityProviderError extends Error {
  /** Whether it may be gone by the next time: nobody answers, or a server is overloaded. */
  readonly isPassing: boolean

  constructor(message: string, isPassing: boolean) {
    super(message)
    this.isPassing = isPassing
  }
}

const REASON_OF: Readonly<Record<string, Reason>> = {
  access_denied: 'denied',
  login_required: 'interaction-required',
  interaction_required: 'interaction-required',
  consent_required: 'interaction-required',
  account_selection_required: 'interaction-required',
}

export const unavailable = (): TenancyError =>
  SsoProviderUnavailable('The identity provider cannot be used at the moment. Try again.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })

/** Whether it went wrong out there; what did not is a fault of ours. */
export const isOfProvider = (error: unknown): boolean =>
  [
    IdentityProviderError,
    ClientError,
    AuthorizationResponseError,
    ResponseBodyError,
    WWWAuthenticateChallengeError,
  ].some((kind) => error instanceof kind)

/** Whether userinfo is about somebody else than the ID token. */
export const isOfAnother = (error: unknown): boolean =>
  error instanceof ClientError && error.code === OTHER_THAN_EXPECTED

/** The issuer that a discovery document has in place of the one it was read for. */
export function otherIssuer(error: unknown): string | undefined {
  if (!isOfAnother(error)) return undefined
  const causes = chainOf(error).map(({ cause }) => cause as { body?: { issuer?: unknown } } | undefined)
  const issuer = causes.find((cause) => cause?.body !== undefined)?.body?.issuer
  return typeof issuer === 'string' ? issuer : ''
}

/** What a login ends with. */
export function rejectionOf(error: unknown): TenancyError {
  for (const one of chainOf(error)) {
    if (one instanceof IdentityProviderError) return one.isPassing ? unavailable() : failed('answer')
    if (one instanceof AuthorizationResponseError) return failed(REASON_OF[one.error] ?? 'provider-error')
    if (one instanceof ResponseBodyError) return failed('provider-error')
  }
  return failed('answer')
}

/** For the log. Of the provider's own words, the code of an error alone: its description may name people. */
export function wordsOf(error: unknown): string {
  const words = chainOf(error).map((one) => (isErrorResponse(one) ? `${one.message} (${one.error})` : one.message))
  return words.join(': ').slice(0, MAX_LOGGED_CHARACTERS)
}

/** What a provider says of an error beside its code; for whoever looks closely. */
export const descriptionOf = (error: unknown): string | undefined =>
  chainOf(error).find(isErrorResponse)?.error_description?.slice(0, MAX_LOGGED_CHARACTERS)

const isErrorResponse = (error: unknown): error is AuthorizationResponseError | ResponseBodyError =>
  error instanceof AuthorizationResponseError || error instanceof ResponseBodyError

function chainOf(error: unknown): Error[] {
  const chain: Error[] = []
  for (let one = error; one instanceof Error && !chain.includes(one); one = one.cause) chain.push(one)
  return chain
}
