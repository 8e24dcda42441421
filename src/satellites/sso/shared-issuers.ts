/**
 * Common issuers with open registration. A tenant that uses one accepts every account, unless allowed domains restrict it. The list is
 * not complete.
 */
const HOSTS: ReadonlySet<string> = new Set([
  'accounts.google.com',
  'appleid.apple.com',
  'gitlab.com',
  'login.salesforce.com',
  'slack.com',
  'www.facebook.com',
])
/** The directory of Microsoft's personal accounts. */
const PERSONAL_ACCOUNTS = 'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0'

export const isShared = (issuer: string): boolean =>
  HOSTS.has(URL.parse(issuer)?.hostname ?? '') || issuer === PERSONAL_ACCOUNTS
