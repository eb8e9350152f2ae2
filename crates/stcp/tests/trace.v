// Reads a trace of a sender (docs/stcp.md, "Test vectors") and checks it as hardware would be checked: times do not go
// back, payload stays inside the window that was offered, nothing is acknowledged that was not sent, no FIN.
module bench;
  integer file, fields, lines, sent, received, wrong;
  reg [8*256-1:0] path;
  reg [8*256-1:0] text;
  reg [63:0] at, latest;
  reg [3:0] kind;
  reg [7:0] flags, scale, shift;
  reg [31:0] seq, ack, length, bytes, una, max, edge_;
  reg [15:0] window, mss;
  reg established;

  initial begin
    lines = 0; sent = 0; received = 0; wrong = 0; bytes = 0; latest = 0; established = 0;
    una = 0; max = 0; edge_ = 0; shift = 0;
    if (!$value$plusargs("trace=%s", path)) $finish;
    file = $fopen(path, "r");
    while ($fgets(text, file) != 0) begin
      fields = $sscanf(text, "%h %h %h %h %h %h %h %h %h",
                       at, kind, flags, seq, ack, window, length, mss, scale);
      if (fields == 9) begin
        lines = lines + 1;
        if (at < latest) wrong = wrong + 1;
        latest = at;
        case (kind)
          0: begin
            sent = sent + 1;
            bytes = bytes + length;
            if (flags & 8'h01) wrong = wrong + 1;
            if (flags & 8'h02) begin una = seq + 1; max = seq + 1; end
            // One byte beyond the edge is a probe.
            if (length > 1 && $signed(seq + length - edge_) > 0) wrong = wrong + 1;
            if ($signed(seq + length - max) > 0) max = seq + length;
          end
          1: begin
            received = received + 1;
            if ($signed(ack - max) > 0) wrong = wrong + 1;
            // The window of a SYN is not scaled.
            if (flags & 8'h02) begin shift = scale == 8'hff ? 0 : scale; una = ack; edge_ = ack + window; end
            else if ($signed(ack - una) >= 0) begin una = ack; edge_ = ack + (window << shift); end
          end
          default: ;
        endcase
      end
    end
    $display("lines %0d sent %0d received %0d bytes %0d wrong %0d", lines, sent, received, bytes, wrong);
    $finish;
  end
endmodule
