/** Console module of billing. */
import { defineConsoleModule } from '../../../console/module.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'billing',
  screens: [
    {
      path: '/billing',
      title: text.billing,
      needs: ['billing.list'],
      search: 'billing.list',
      start: { dunning: 'open' },
      navigation: { icon: 'billing', order: 70 },
      key: 'b',
      view: () => import('./all.tsx'),
    },
  ],
  tabs: [
    { path: 'billing', title: text.billing, needs: ['billing.get'], order: 70, view: () => import('./of-tenant.tsx') },
  ],
  restorationLimits: { subscription: text.notRestored },
  cards: [{ needs: ['billing.get'], order: 40, view: () => import('./card.tsx') }],
  columns: [
    {
      key: 'dunning',
      title: text.columns.dunning,
      needs: ['billing.list'],
      read: 'billing.list',
      input: { query: { dunning: 'open', limit: 200 } },
      view: () => import('./column.tsx'),
    },
  ],
  actions: [
    {
      name: 'billing.checkout',
      title: `${text.checkout}…`,
      target: 'billing',
      needs: ['billing.checkout'],
      view: () => import('./checkout.tsx'),
    },
    {
      name: 'billing.portal',
      title: `${text.portal}…`,
      target: 'billing',
      needs: ['billing.portal'],
      isAvailable: ({ customerId }) => customerId !== null,
      view: () => import('./portal.tsx'),
    },
    {
      name: 'billing.cancel',
      title: `${text.cancel}…`,
      target: 'billing',
      needs: ['billing.cancel'],
      isDestructive: true,
      isAvailable: ({ subscription }) =>
        subscription !== null && subscription.endedAt === null && subscription.status !== 'canceled',
      view: () => import('./cancel.tsx'),
    },
  ],
})
