/** Routes of invoices. */
import type Stripe from 'stripe'
import { declined, invalid } from '../errors.ts'
import { flag, text, within } from '../form.ts'
import { PAGING, pageOf } from '../lists.ts'
import { get, post, type Route } from '../routes.ts'
import { idOf, named } from '../state.ts'
import { collect } from './collection.ts'
import { subscriptionIdOf } from './invoices.ts'

export const invoiceRoutes: readonly Route[] = [
  get('/v1/invoices/:id', [], (state, _, id) => named(state.invoices, 'invoice', id)),
  post('/v1/invoices/:id/pay', ['paid_out_of_band', 'off_session'], (state, params, id) => {
    const invoice = named(state.invoices, 'invoice', id)
    if (invoice.status === 'paid') throw invalid('Invoice is already paid')
    if (invoice.status !== 'open') throw invalid(`An invoice that is ${invoice.status} cannot be paid.`)
    const outcome = flag(params, 'paid_out_of_band') ? 'paid' : undefined
    if (!collect(state, invoice, { outcome, isManual: true })) throw declined()
    return invoice
  }),
  get('/v1/invoices', [...PAGING, 'customer', 'subscription', 'status', 'created'], (state, params) => {
    const is = (name: string, value: string | null | undefined) => [undefined, value].includes(text(params, name))
    const isWanted = (invoice: Stripe.Invoice) =>
      is('customer', invoice.customer && idOf(invoice.customer)) &&
      is('subscription', subscriptionIdOf(invoice)) &&
      is('status', invoice.status) &&
      within(params, 'created', invoice.created)
    return pageOf(state.invoices.values(), params, '/v1/invoices', isWanted)
  }),
]
