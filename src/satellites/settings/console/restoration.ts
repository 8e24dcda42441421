/** Restoration of the value of a tenant. The audit log has no value of a secret. */
import type { Restoration } from '../../../console/module.ts'
import type { Setting } from './setting.ts'

/** Recorded states have no source: they are values of the tenant. */
type State = Partial<Pick<Setting, 'isSecret' | 'source' | 'value'>>

/** Names in the audit log have the tenant: `acme/upload.mb`. */
const paramsOf = (id: string, name: string) => ({ id, name: name.slice(id.length + 1) })

export const restoration: Restoration<'settings.get', 'settings.set'> = {
  kind: 'setting',
  needs: ['settings.get', 'settings.set'],
  read: 'settings.get',
  change: 'settings.set',
  readInput: (id, name) => ({ params: paramsOf(id, name) }),
  stateOf: ({ isSecret = false, source = 'tenant', ...state }: State) =>
    !isSecret && source === 'tenant' && 'value' in state ? { value: state.value } : undefined,
  changeInput: (id, name, state) => ({ params: paramsOf(id, name), body: state }),
  creation: null,
}
