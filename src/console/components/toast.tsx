/** The toast region: notices with undo for 8 seconds, problems until they are dismissed. `u` undoes the last one, `F6` moves the focus there. */
import { Toast } from '@base-ui/react/toast'
import { useEffect } from 'react'
import { noticeStore } from '../data/notices.ts'
import { useStore } from '../data/store.ts'
import { IconButton } from './base/button.tsx'
import { text } from './base/text.ts'
import { layers } from './layers.ts'

const TIMEOUT_MS = 8_000
const manager = Toast.createToastManager<{ undo: (() => unknown) | undefined }>()

export const ToastRegion = () => (
  <Toast.Provider toastManager={manager} timeout={TIMEOUT_MS} limit={3}>
    <Toast.Portal container={layers()}>
      <Toast.Viewport className="toasts" aria-label={text.notifications}>
        <Toasts />
      </Toast.Viewport>
    </Toast.Portal>
  </Toast.Provider>
)

function Toasts() {
  const { toasts, close } = Toast.useToastManager<{ undo: (() => unknown) | undefined }>()
  const notice = useStore(noticeStore)
  useEffect(() => {
    if (!notice) return
    const { number, text: title, detail, isError, undo } = notice
    manager.add({
      id: String(number),
      title,
      description: detail,
      type: isError ? 'error' : 'done',
      priority: isError ? 'high' : 'low',
      timeout: isError ? 0 : TIMEOUT_MS,
      data: { undo },
    })
  }, [notice])
  return toasts.map((toast) => {
    const { undo } = toast.data ?? {}
    return (
      <Toast.Root key={toast.id} toast={toast} className="toast">
        <Toast.Content className="toast-content">
          <div>
            <Toast.Title className="toast-title" render={<p />} />
            <Toast.Description className="toast-detail" />
          </div>
          {undo && (
            <Toast.Action
              className="button"
              data-undo
              onClick={() => {
                close(toast.id)
                void undo()
              }}
            >
              {text.undo}
            </Toast.Action>
          )}
          <Toast.Close render={<IconButton icon="close" label={text.dismiss} />} />
        </Toast.Content>
      </Toast.Root>
    )
  })
}
