/** Combines the claims of an ID token and userinfo into the identity of a login. */
type Claims = Readonly<Record<string, unknown>>

export interface SsoClaims {
  /** With `sub` it identifies a person permanently; a mail address does not. */
  readonly issuer: string
  readonly sub: string
  readonly email: string | null
  /** Whether the provider has verified that the address belongs to the person. */
  readonly emailVerified: boolean
  readonly name: string | null
  /** All claims of the provider, such as groups and roles. Only one mail address: the one above. */
  readonly all: Claims
}

/** Whether the ID token lacks requested claims. */
export function isShort(idToken: Claims, scopes: readonly string[]): boolean {
  const isMailShort = scopes.includes('email') && (idToken.email === undefined || idToken.email_verified === undefined)
  return isMailShort || (scopes.includes('profile') && idToken.name === undefined)
}

/** Address and verification come from one source, because two sources may mean different addresses. */
export function claimsOf(idToken: Claims, userinfo: Claims | undefined): SsoClaims {
  const isWhole = idToken.email !== undefined && idToken.email_verified !== undefined
  const mail = isWhole || userinfo?.email === undefined ? idToken : userinfo
  const email = text(mail.email)
  return {
    issuer: String(idToken.iss),
    sub: String(idToken.sub),
    email,
    emailVerified: email !== null && (mail.email_verified === true || mail.email_verified === 'true'),
    name: text(idToken.name) ?? text(userinfo?.name),
    all: { ...withoutMail({ ...userinfo, ...idToken }), ...mailOf(mail) },
  }
}

const withoutMail = ({ email: _, email_verified: __, ...rest }: Claims): Claims => rest
const mailOf = (claims: Claims): Claims =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => name === 'email' || name === 'email_verified'))

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
