/** Restorations of a tenant: its name, domains and metadata by `tenants.update`, its plan by `tenants.setPlan`. */
import { pick } from '../../console/data/pick.ts'
import type { Restoration } from '../../console/module.ts'
import type { Tenant } from './base/tenant.ts'
import { text } from './base/text.ts'

type State = Partial<Pick<Tenant, 'name' | 'domains' | 'metadata'>>

const readInput = (id: string) => ({ params: { id } })
const withoutPlan = ({ plan: _, ...others }: Tenant['metadata']): Tenant['metadata'] => others
const hasChanged = (one: unknown, other: unknown): boolean => JSON.stringify(one) !== JSON.stringify(other)

const general: Restoration<'tenants.get', 'tenants.update'> = {
  kind: 'tenant',
  title: text.restoreGeneral,
  needs: ['tenants.get', 'tenants.update'],
  read: 'tenants.get',
  change: 'tenants.update',
  readInput,
  stateOf: ({ metadata, ...others }: State) => ({
    ...pick(others, ['name', 'domains']),
    ...(metadata ? { metadata: withoutPlan(metadata) } : {}),
  }),
  changeInput: (id, _, { metadata, ...state }: State, present) => {
    const changed = Object.entries(state).filter(([member, value]) =>
      hasChanged(value, present?.[member as keyof State]),
    )
    const former = withoutPlan(present?.metadata ?? {})
    const body = Object.fromEntries(changed)
    if (!metadata || !hasChanged(metadata, former)) return { params: { id }, body }
    const removed = Object.keys(former).filter((key) => !(key in metadata))
    return { params: { id }, body: { ...body, metadata: { ...nulls(removed), ...metadata } } }
  },
}

const nulls = (keys: readonly string[]) => Object.fromEntries(keys.map((key) => [key, null]))

const plan: Restoration<'tenants.get', 'tenants.setPlan'> = {
  kind: 'tenant',
  title: text.restorePlan,
  needs: ['tenants.get', 'tenants.setPlan'],
  read: 'tenants.get',
  change: 'tenants.setPlan',
  readInput,
  stateOf: ({ metadata }: State) => (typeof metadata?.plan === 'string' ? { plan: metadata.plan } : undefined),
  changeInput: (id, _, state: { readonly plan: string }) => ({ params: { id, plan: state.plan } }),
}

export const restorations = [general, plan]
