/** Restoration of the branding. The operation replaces the complete state, so members that the log lacks keep their present values. */
import type { Restoration } from '../../../console/module.ts'

export const restoration: Restoration<'branding.get', 'branding.update'> = {
  kind: 'branding',
  needs: ['branding.get', 'branding.update'],
  read: 'branding.get',
  change: 'branding.update',
  readInput: (id) => ({ params: { id } }),
  stateOf: (state) => state,
  changeInput: (id, _, state, present) => ({ params: { id }, body: { ...present, ...state } }),
}
