/**
 * Restoration of single sign-on. The audit log has no client secret, and another issuer or client removes the stored one. Users could not sign
 * in without it, so single sign-on of a client with a secret stays disabled until an operator has entered the secret.
 */
import type { Result } from '../../../console/api/contract.ts'
import { pick } from '../../../console/data/pick.ts'
import type { Restoration } from '../../../console/module.ts'

type Settings = Result<'sso.get'>

const MEMBERS = ['issuer', 'clientId', 'redirectUri', 'scopes', 'allowedDomains', 'enabled', 'enforced']

const isOtherClient = (state: Partial<Settings>, present: Settings): boolean => {
  const { issuer, clientId } = { ...present, ...state }
  return issuer !== present.issuer || clientId !== present.clientId
}

const lacksSecret = (state: Partial<Settings>, present: Settings): boolean =>
  (state.clientSecretSet ?? present.clientSecretSet) && (!present.clientSecretSet || isOtherClient(state, present))

export const restoration: Restoration<'sso.get', 'sso.update'> = {
  kind: 'sso',
  needs: ['sso.get', 'sso.update'],
  read: 'sso.get',
  change: 'sso.update',
  readInput: (id) => ({ params: { id } }),
  stateOf: (state: Partial<Settings>, present) => ({
    ...pick(state, MEMBERS),
    ...(present && lacksSecret(state, present) ? { enabled: false, enforced: false } : {}),
  }),
  changeInput: (id, _, state: Partial<Settings>, present) => {
    const { clientSecretSet = false, ...settings } = present ?? {}
    const isRemoved = clientSecretSet && present !== undefined && isOtherClient(state, present)
    return { params: { id }, body: { ...settings, ...state, ...(isRemoved ? { clientSecret: null } : {}) } }
  },
}
