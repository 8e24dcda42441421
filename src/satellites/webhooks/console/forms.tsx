/** Panels: a new subscription, changes of one, and an event that is sent to all of them. */
import { useId } from 'react'
import { Field, Form } from '../../../console/components/forms/form.tsx'
import { Panel } from '../../../console/components/panel.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import { type Owner, operationOf, paramsOf, type Webhook } from './api.ts'
import { text } from './text.ts'

interface NewProps {
  readonly owner: Owner
  readonly onClose: () => void
  readonly onCreated: (secret: string | undefined) => void
}

export function NewSubscription({ owner, onClose, onCreated }: NewProps) {
  const name = operationOf(owner, 'webhooks.create')
  const create = useAction(name, {
    done: ({ url }) => text.created(url),
    onDone: ({ secret }) => onCreated(secret),
    isSecret: true,
    showsProblem: true,
  })
  return (
    <Panel title={text.new} onClose={onClose}>
      <Form
        operation={name}
        submit={text.create}
        isRunning={create.isRunning}
        problem={create.problem}
        onCancel={onClose}
        onSubmit={(body) => create.run({ params: paramsOf(owner, ''), body })}
      >
        <Field name="url" label={text.url} hint={text.urlHint} as="url" placeholder="https://" autoFocus />
        <Field name="events" label={text.events} hint={text.eventsHint} />
        <EventPicker field="events" />
        <Field name="description" label={text.description} as="text" />
        <Field name="secret" label={text.secret} hint={text.secretHint} as="password" />
        <Field name="envelope" label={text.envelope} />
      </Form>
    </Panel>
  )
}

export function EditSubscription({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { tenantId, webhookId, url, events, description, envelope, enabled } = webhook
  const name = operationOf(tenantId, 'webhooks.update')
  const update = useAction(name, { done: text.saved(url), onDone: onClose, showsProblem: true })
  return (
    <Panel title={text.editTitle} onClose={onClose}>
      <Form
        operation={name}
        initial={{ url, events, description, envelope, enabled }}
        submit={text.save}
        isRunning={update.isRunning}
        problem={update.problem}
        onCancel={onClose}
        onSubmit={(body) => update.run({ params: paramsOf(tenantId, webhookId), body: { description: null, ...body } })}
      >
        <Field name="url" label={text.url} hint={text.urlHint} as="url" isRequired autoFocus />
        <Field name="events" label={text.events} hint={text.eventsHint} isRequired />
        <EventPicker field="events" />
        <Field name="description" label={text.description} as="text" />
        <Field name="envelope" label={text.envelope} />
        <Field name="enabled" label={text.enabled} />
      </Form>
    </Panel>
  )
}

/** Sends an event of the tenant to its subscriptions and those of the host. */
export function SendEvent({ id, onClose }: { id: string; onClose: () => void }) {
  const dispatch = useAction('webhooks.dispatch', {
    done: ({ deliveries }) => text.dispatched(deliveries.length),
    onDone: onClose,
    showsProblem: true,
  })
  return (
    <Panel title={text.sendEvent} onClose={onClose}>
      <p className="panel-lead">{text.sendEventText}</p>
      <Form
        operation="webhooks.dispatch"
        submit={text.dispatch}
        isRunning={dispatch.isRunning}
        problem={dispatch.problem}
        onCancel={onClose}
        onSubmit={(body) => dispatch.run({ params: { id }, body })}
      >
        <Field name="event" label={text.event} placeholder="order.paid" autoFocus />
        <EventPicker field="event" />
        <Field name="payload" label={text.payload} hint={text.payloadHint} />
      </Form>
    </Panel>
  )
}

/** Writes the name of an event of Tenantry into a field of the form: a line of a list, or the only value. */
function EventPicker({ field }: { field: 'event' | 'events' }) {
  const id = useId()
  const { data } = useOperation('webhookEvents.list', { query: { limit: 200 } }, { refetchInterval: false })
  if (!data) return null
  const add = (select: HTMLSelectElement) => {
    const target = select.form?.elements.namedItem(field) as HTMLInputElement | HTMLTextAreaElement
    const lines = target.value.split('\n').filter((line) => line.trim() && line !== select.value)
    target.value = field === 'event' ? select.value : [...lines, select.value].join('\n')
    target.dispatchEvent(new Event('input', { bubbles: true }))
    select.value = ''
  }
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {text.addEvent}
      </label>
      <select id={id} defaultValue="" onChange={(event) => add(event.currentTarget)}>
        <option value="">{text.choose}</option>
        {data.data.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </div>
  )
}
