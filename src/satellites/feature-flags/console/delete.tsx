/** Deletes a flag. The toast creates it again. */
import { Confirm } from '../../../console/components/confirm.tsx'
import { runAction, useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { goTo } from '../../../console/routing/router.tsx'
import type { Flag } from './model.ts'
import { text } from './text.ts'

export default function DeleteFlag({ target: flag, onClose }: ActionProps<Flag>) {
  const { tenantId: id, key, enabled, rolloutPercent, bucketKey } = flag
  const input = { params: { id, key } }
  const remove = useAction('featureFlags.delete', {
    done: text.deleted(key),
    showsProblem: true,
    undo: () =>
      runAction(
        'featureFlags.edit',
        { ...input, body: { enabled, rolloutPercent, bucketKey } },
        { done: text.restored(key) },
      ),
    onDone: () => {
      onClose()
      goTo(tenantHref(id, 'flags'))
    },
  })
  return (
    <Confirm
      title={text.deleteTitle(key)}
      word={key}
      confirm={text.delete}
      isRunning={remove.isRunning}
      problem={remove.problem}
      call={{ name: 'featureFlags.delete', input }}
      onConfirm={() => void remove.run(input)}
      onClose={onClose}
    >
      {text.deleteText}
    </Confirm>
  )
}
