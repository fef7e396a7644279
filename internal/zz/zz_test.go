package zz
import ("testing";"context";"os";"fmt";"time"
"github.com/agenthost/agenthost/host/plugin"
"github.com/agenthost/agenthost/host/plugin/guestprofile"
"github.com/agenthost/agenthost/internal/testcode"
"github.com/agenthost/agenthost/pdk/js")
func TestX(t *testing.T){
 prof := os.Getenv("PROF")!=""
 rt,err:=plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Interpreters: [][]byte{js.Engine()}, ProfileCalls: prof})
 if err!=nil{t.Fatal(err)}
 defer rt.Close(context.Background())
 sp:="../../host/codemode/code.js"; if s:=os.Getenv("SP"); s!="" {sp=s}; script,_:=os.ReadFile(sp)
 wasm,_:=js.Pack(script)
 p,err:=rt.Load(t.Context(),"builtin:code",wasm,&plugin.LoadOptions{Granted: plugin.Permissions{Tools: []string{"*"}},Isolation: plugin.IsolationFresh})
 if err!=nil{t.Fatal(err)}
 su,_:=p.StartUp(t.Context()); fmt.Printf("%+v\n",su)
 in:=`{"tool":"run_code","arguments":{"code":"","tools":[["add","add"],["instant","instant"]],"console_bytes":8192,"result_bytes":65536}}`
 if s:=os.Getenv("IN"); s!="" {in=s}
 var pr *guestprofile.Profile
 if prof { pr=&guestprofile.Profile{} }
 var best, sum time.Duration = 1<<60, 0
 for i:=0;i<300;i++{
  b:=time.Now()
  r,err:=p.Call(t.Context(),"acme","tool",[]byte(in),&plugin.CallOptions{Profile:pr})
  d:=time.Since(b)
  if err!=nil{t.Fatal(err, string(r.Output))}
  if d<best {best=d}; sum+=d
  if i==299 {fmt.Printf("%s %+v best %v mean %v\n", r.Output, *r.Cost, best, sum/300)}
 }
}
