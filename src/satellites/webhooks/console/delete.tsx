/** Dialog: deletes a subscription. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { go } from '../../../console/routing/router.tsx'
import { operationOf, paramsOf, pathOf, type Webhook } from './api.ts'
import { text } from './text.ts'

export default function Delete({ target: { tenantId, webhookId, url }, onClose }: ActionProps<Webhook>) {
  const name = operationOf(tenantId, 'webhooks.delete')
  const input = { params: paramsOf(tenantId, webhookId) }
  const remove = useAction(name, {
    done: text.deleted(url),
    onDone: () => {
      onClose()
      go(pathOf(tenantId), { isReplaced: true })
    },
    showsProblem: true,
  })
  return (
    <Confirm
      title={text.deleteTitle}
      word={new URL(url).host}
      confirm={text.delete}
      isRunning={remove.isRunning}
      problem={remove.problem}
      call={{ name, input }}
      onConfirm={() => remove.run(input)}
      onClose={onClose}
    >
      <p>{text.deleteText(url)}</p>
    </Confirm>
  )
}
