/** Dialogs: replay one delivery, or many of a time window, whose number is shown first. */
import { type FormEvent, useState } from 'react'
import { ApiCall } from '../../../console/components/api-call.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { fromLocal, toLocal } from '../../../console/components/base/local-time.ts'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { Confirm } from '../../../console/components/confirm.tsx'
import { Dialog } from '../../../console/components/dialog.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Webhooks } from './api.ts'
import { type ListedDelivery, type Owner, operationOf, ownerOf, paramsOf, type Webhook } from './api.ts'
import { text } from './text.ts'

const DAY_MS = 24 * 3_600_000

export const ReplayDelivery = ({ target, onClose }: ActionProps<ListedDelivery>) => (
  <ReplayOne delivery={target} owner={ownerOf(target)} onClose={onClose} />
)

export const ReplayHostDelivery = ({ target, onClose }: ActionProps<ListedDelivery>) => (
  <ReplayOne delivery={target} owner={null} onClose={onClose} />
)

function ReplayOne({ delivery, owner, onClose }: { delivery: ListedDelivery; owner: Owner; onClose: () => void }) {
  const { id: deliveryId, webhookId, event } = delivery
  const name = operationOf(owner, 'webhookDeliveries.replay')
  const input = { params: { ...paramsOf(owner, webhookId), deliveryId } }
  const replay = useAction(name, { done: text.replayed(event), onDone: onClose, showsProblem: true })
  return (
    <Confirm
      title={text.replayTitle}
      confirm={text.replay}
      isDestructive={false}
      isRunning={replay.isRunning}
      problem={replay.problem}
      call={{ name, input }}
      onConfirm={() => replay.run(input)}
      onClose={onClose}
    >
      <p>{text.replayText(event)}</p>
    </Confirm>
  )
}

export const ReplayFailed = ({ target: webhook, onClose }: ActionProps<Webhook>) => (
  <ReplayMany
    title={text.replayFailed}
    description={text.replayFailedText}
    name={operationOf(webhook.tenantId, 'webhooks.replayFailed')}
    params={paramsOf(webhook.tenantId, webhook.webhookId)}
    since={webhook.health?.failingSince}
    onClose={onClose}
  />
)

export const ReplayMissing = ({ target: webhook, onClose }: ActionProps<Webhook>) => (
  <ReplayMany
    title={text.replayMissing}
    description={text.replayMissingText}
    name={operationOf(webhook.tenantId, 'webhooks.replayMissing')}
    params={paramsOf(webhook.tenantId, webhook.webhookId)}
    onClose={onClose}
  />
)

export const ReplayAllFailed = ({ target: { owner }, onClose }: ActionProps<Webhooks>) => (
  <ReplayMany
    title={text.replayAllFailed}
    description={text.replayAllFailedText}
    name={operationOf(owner, 'webhooks.replayAllFailed')}
    params={paramsOf(owner, '')}
    onClose={onClose}
  />
)

interface ReplayManyProps {
  readonly title: string
  readonly description: string
  readonly name: 'webhooks.replayFailed' | 'webhooks.replayMissing' | 'webhooks.replayAllFailed'
  readonly params: { readonly id: string; readonly webhookId: string }
  /** Start of the window; default: a day ago. */
  readonly since?: string | null
  readonly onClose: () => void
}

function ReplayMany({ title, description, name, params, since, onClose }: ReplayManyProps) {
  const [from, setFrom] = useState(() => toLocal(since ?? new Date(Date.now() - DAY_MS)))
  const [to, setTo] = useState('')
  const [start, end] = [fromLocal(from), fromLocal(to)]
  const window = { ...(start ? { from: start } : {}), ...(end ? { to: end } : {}) }
  const counted = useOperation(name, { params, body: { ...window, dryRun: true } }, { refetchInterval: false })
  const replay = useAction(name, {
    done: ({ count }) => text.replaysDone(count),
    onDone: onClose,
    showsProblem: true,
  })
  const input = { params, body: window }
  const { count } = (!counted.isPlaceholderData && counted.data) || {}
  const problem = replay.problem ?? counted.error
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (count && !replay.isRunning) void replay.run(input)
  }
  return (
    <Dialog title={title} description={description} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        <div className="window">
          <TimeField label={text.from} value={from} onChange={setFrom} autoFocus />
          <TimeField label={text.to} value={to} onChange={setTo} />
        </div>
        <p role="status" className="replay-count">
          {count === undefined ? (counted.error ? '' : text.counting) : text.countOf(count)}
        </p>
        {problem && <ProblemView error={problem} isCompact />}
        <ApiCall name={name} input={input} />
        <footer>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button type="submit" variant="primary" disabled={!count} isRunning={replay.isRunning}>
            {count ? text.replayCount(count) : text.replay}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

interface TimeFieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly autoFocus?: boolean
}

const TimeField = ({ label, value, onChange, autoFocus }: TimeFieldProps) => (
  <label className="field">
    <span className="label">{label}</span>
    <input
      type="datetime-local"
      value={value}
      // biome-ignore lint/a11y/noAutofocus: the first field of the dialog that was opened
      autoFocus={autoFocus}
      onChange={(event) => onChange(event.target.value)}
    />
  </label>
)
